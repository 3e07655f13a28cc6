package real

import (
	"fmt"
)

var mariadbd = service{
	node: "ctl", name: "mariadbd", pidFile: "/run/mysqld/mysqld.pid",
	argv: []string{"sh", "-c", `setsid mariadbd --no-defaults --user=mysql --datadir=/var/lib/lab/mysql \
		--socket=/run/mysqld/mysqld.sock --pid-file=/run/mysqld/mysqld.pid --skip-networking --skip-log-bin \
		--innodb-buffer-pool-size=64M --innodb-log-file-size=16M --innodb-flush-log-at-trx-commit=0 \
		--innodb-lock-wait-timeout=900 --performance-schema=OFF --log-error=/var/log/mariadb.log >/dev/null 2>&1 &`},
}

const makeDatabase = `mariadb-install-db --no-defaults --user=mysql --datadir=/var/lib/lab/mysql \
	--auth-root-authentication-method=socket --skip-test-db --innodb-log-file-size=16M >/var/log/mariadb-install.log 2>&1`

const grantDatabase = `CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED BY 'slurmdbpass';
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;
`

// accounts is one file for sacctmgr: it takes half a second a command.
const accounts = `Cluster - 'lab'
Parent - 'root'
Account - 'proj1':Description='proj1':Organization='lab'
Account - 'proj2':Description='proj2':Organization='lab'
Account - 'staff':Description='staff':Organization='lab'
Parent - 'proj1'
User - 'hpcuser':DefaultAccount='proj1':QOS='normal,tiny'
User - 'zshuser':DefaultAccount='proj1'
User - 'fishuser':DefaultAccount='proj1'
User - 'tcshuser':DefaultAccount='proj1'
Parent - 'proj2'
User - 'hpcuser':GrpJobs=1
User - 'alice':DefaultAccount='proj2'
`

// startAccounting starts the database and slurmdbd, and makes the accounts: proj1
// for most, proj2 with one job at a time for hpcuser, staff for no one; the
// quality of service "tiny" allows one job of two cores.
func (c *Cluster) startAccounting() error {
	pid, err := c.pid(slurmdbd.node)
	if err != nil {
		return err
	}
	at := func(input string, argv ...string) error {
		_, err := run(input, inside(pid, argv...)...)
		return err
	}
	known := at("", "test", "-d", "/var/lib/lab/mysql") == nil
	if !known {
		if err := at("", "sh", "-c", makeDatabase); err != nil {
			return fmt.Errorf("make the database: %w", err)
		}
	}
	if err := c.startService(mariadbd); err != nil {
		return err
	}
	mariadb := []string{"mariadb", "--no-defaults", "-S", "/run/mysqld/mysqld.sock"}
	if !poll(func() bool { return at("SELECT 1;", mariadb...) == nil }) {
		return fmt.Errorf("the database does not answer; see %s", c.path("nodes", "ctl", "log"))
	}
	if err := at(grantDatabase, mariadb...); err != nil {
		return err
	}
	if err := c.startService(slurmdbd); err != nil {
		return err
	}
	if known {
		return nil
	}
	for _, argv := range [][]string{
		{"sacctmgr", "-i", "-Q", "add", "qos", "tiny", "set", "MaxJobsPerUser=1", "MaxTRESPerJob=cpu=2"},
		{"sh", "-c", "cat >/tmp/accounts.cfg && sacctmgr -i -Q load /tmp/accounts.cfg"},
	} {
		if err := at(accounts, argv...); err != nil {
			return fmt.Errorf("make the accounts: %w", err)
		}
	}
	return nil
}
