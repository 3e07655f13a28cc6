package jobtest

import (
	"fmt"
	"strings"
)

// SqueueRecord is a line as squeue prints it for our format.
func SqueueRecord(fields ...string) string { return strings.Join(fields, "\x1f") + "\x1e\n" }

// ScontrolText is a record in the form with several lines; the other fields are those of a
// running batch job.
func ScontrolText(fields ...string) string {
	value := map[string]string{
		"JobId": "7", "JobName": "nb", "UserId": "mira(5101)", "GroupId": "domain users(513)", "JobState": "RUNNING", "Reason": "None", "BatchFlag": "1",
		"NodeList": "lyra07", "BatchHost": "lyra07.example.org", "Command": "/home/mira/run.sh", "WorkDir": "/home/mira", "StdErr": "", "StdOut": "/home/mira/slurm-7.out",
	}
	ids := ""
	for _, f := range fields {
		key, text, _ := strings.Cut(f, "=")
		value[key] = text
		if strings.HasPrefix(key, "Array") {
			ids += f + " "
		}
	}
	return strings.NewReplacer("@", "\n   ").Replace(fmt.Sprintf("JobId=%s %sJobName=%s@UserId=%s GroupId=%s MCS_label=N/A@JobState=%s Reason=%s Dependency=(null)"+
		"@Requeue=1 Restarts=0 BatchFlag=%s Reboot=0 ExitCode=0:0@NodeList=%s@BatchHost=%s@Command=%s@WorkDir=%s@StdErr=%s@StdIn=/dev/null@StdOut=%s@\n",
		value["JobId"], ids, value["JobName"], value["UserId"], value["GroupId"], value["JobState"], value["Reason"], value["BatchFlag"],
		value["NodeList"], value["BatchHost"], value["Command"], value["WorkDir"], value["StdErr"], value["StdOut"]))
}
