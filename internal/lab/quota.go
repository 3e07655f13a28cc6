package lab

import "context"

// quota prints a table as quota -s does, of a home folder that nobody measures.
func quota(_ context.Context, c *call) int {
	c.printf("Disk quotas for user %s (uid 2001): \n%s", user, `     Filesystem   space   quota   limit   grace   files   quota   limit   grace
 practice:/home  12288M  40960M  51200M            157k    200k    250k        
`)
	return 0
}
