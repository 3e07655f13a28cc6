package lab

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tunctl/internal/dev/wait"

	"golang.org/x/crypto/ssh"
)

func TestImpossibleJobs(t *testing.T) {
	for _, tt := range []struct{ dialect, options, refusal string }{
		{Slurm, "--gpus=4 --cpus-per-task=4 --time=8:00:00", ""},
		{Slurm, "--gpus=5", "Requested node configuration is not available"},
		{Slurm, "--cpus-per-task=5", "Requested node configuration is not available"},
		{Slurm, "--time=8:00:01", "Requested time limit is invalid"},
		{Slurm, "--test-only --gpus=99", "Requested node configuration is not available"},
		{PBS, "-l select=2:ncpus=4:ngpus=2 -l walltime=8:00:00", ""},
		{PBS, "-l select=1:ncpus=5", "violates queue and/or server resource limits"},
		{PBS, "-l select=3:ngpus=2", "violates queue and/or server resource limits"},
		{PBS, "-l walltime=9:00:00", "violates queue and/or server resource limits"},
	} {
		t.Run(tt.dialect+" "+tt.options, func(t *testing.T) {
			submit := map[string]string{Slurm: "sbatch ", PBS: "qsub "}[tt.dialect]
			got := run(t, dial(t, practice(t, Options{Dialect: tt.dialect, Demo: true})), submit+tt.options, "#!/bin/sh\n")
			if got.status == 0 != (tt.refusal == "") || !strings.Contains(got.stderr, tt.refusal) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestShellInJob(t *testing.T) {
	if filepath.Base(findShell()) != "bash" {
		t.Skip("no bash here")
	}
	c := practice(t, Options{Demo: true})
	got := run(t, dial(t, c), `HOSTNAME=cn02 `+findShell()+` -lc 'hostname; command -v squeue'`, "") // as a relay starts it
	if want := "cn02\n" + filepath.Join(c.binDir(), "squeue") + "\n"; got.stdout != want {
		t.Errorf("%+v, want %q", got, want)
	}
}

func TestNewJobReason(t *testing.T) {
	for dialect, submit := range map[string]string{
		Slurm: "sbatch --wrap true >/dev/null; squeue -h -o %r",
		PBS:   "echo true | qsub >/dev/null; qstat -f | grep comment",
	} {
		c := practice(t, Options{Dialect: dialect, Demo: true, QueueFor: time.Hour})
		if got := run(t, dial(t, c), submit, ""); strings.Trim(got.stdout, "None\n") != "" {
			t.Errorf("%s: %+v", dialect, got)
		}
	}
}

func TestNodeLogin(t *testing.T) {
	c := practice(t, Options{})
	client := dial(t, c)
	conn, err := client.Dial("tcp", "cn02:22")
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParsePrivateKey([]byte(readFile(t, filepath.Join(c.sshDir(), "id_ed25519"))))
	if err != nil {
		t.Fatal(err)
	}
	hop, channels, requests, err := ssh.NewClientConn(conn, "cn02:22", &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := run(t, ssh.NewClient(hop, channels, requests), "hostname", ""); got.stdout != "cn02\n" {
		t.Errorf("%+v", got)
	}
}

func TestJobResources(t *testing.T) {
	for dialect, tt := range map[string]struct{ submit, show, want, extend, refusal string }{
		Slurm: {
			`sbatch --parsable -c 2 --gpus=1 --mem=4G --time=2:00:00 -o log --wrap 'env | grep -e ON_NODE -e PER_NODE | sort; sleep 600'`,
			`sinfo -h -O x | grep mix; cat log; scontrol show job 1001 | grep -o ' TRES.*'`,
			"practice|mix|1|2/2/0/4|4|32000|gpu:t4:2|gpu:t4:1|\nSLURM_CPUS_ON_NODE=2\nSLURM_GPUS_ON_NODE=1\nSLURM_JOB_CPUS_PER_NODE=2\nSLURM_MEM_PER_NODE=4096\n TRES=cpu=2,mem=4096M,node=1,billing=2,gres/gpu=1\n",
			"scontrol update JobId=1001 TimeLimit=", "Requested time limit is invalid",
		},
		PBS: {
			"printf 'env | grep NCPUS; sleep 600' | qsub -k oed -o log -l select=1:ncpus=2:ngpus=1:mem=4gb -l walltime=2:00:00",
			`pbsnodes -a -S -j | grep ' 2/4 '; cat log; qstat -f 1001 | grep -o 'List.*[cm][pe][um].* = .*'`,
			"cn01            free                 1     1      0    32gb/32gb     2/4     0/0     1/2 --\nNCPUS=2\nList.mem = 4096mb\nList.ncpus = 2\n",
			"qalter 1001 -l walltime=", "violates queue",
		},
	} {
		t.Run(dialect, func(t *testing.T) {
			c := practice(t, Options{Dialect: dialect, Demo: true})
			client := dial(t, c)
			run(t, client, tt.submit, "")
			got := answer{}
			wait.Until(t, "the job's own output", func() bool {
				got = run(t, client, tt.show, "")
				return strings.Contains(got.stdout, "=2\n")
			})
			if got.stdout != tt.want {
				t.Errorf("got %q\nwant %q", got.stdout, tt.want)
			}
			if got := run(t, client, tt.extend+"08:00:00", ""); got.status != 0 {
				t.Errorf("within the limit: %+v", got)
			}
			if got := run(t, client, tt.extend+"08:00:01", ""); got.status == 0 || !strings.Contains(got.stderr, tt.refusal) {
				t.Errorf("beyond the limit: %+v", got)
			}
		})
	}
}
