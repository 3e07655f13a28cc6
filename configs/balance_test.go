package configs

import (
	"slices"
	"strings"
	"testing"

	"tunctl/internal/api"
)

// recentHours is the unit of sshare's RawUsage, which Slurm lets decay.
const recentHours = "billing hours (older use may count less)"

func TestTheNumbersOfASitesToolsAreRead(t *testing.T) {
	for _, tt := range []struct {
		name, site, command, output string
		want                        []api.Balance
	}{
		{"the Alliance's report, in all its forms", "narval", "diskusage_report", `
                            Description                Space         # of files
                  /home (user ann)         0  B/  50GiB          13 / 500K
               /scratch (user ann)         51GiB/256GiB         341K/  10M
         /project (group def-prof)           361G/1000G             90k/500k
              Project (def-prof-ab)       4096 B/9536 GB              2/500k
               /project (project x)        88GiB/ unlimited        5K/10K

Breakdown for project rrg-prof (Last update: 2023-02-27 23:04:29)
           User      File count                 Size             Location
         user01               2             0.00 GiB              On disk
`, []api.Balance{
			{Name: "/home (user ann)", Used: 0, Total: 50, Unit: "GiB"},
			{Name: "/scratch (user ann)", Used: 51, Total: 256, Unit: "GiB"},
			{Name: "/project (group def-prof)", Used: 361, Total: 1000, Unit: "GB"},
			{Name: "Project (def-prof-ab)", Used: 0, Total: 9.54, Unit: "TB"},
			{Name: "/project (project x)", Used: 88, Unit: "GiB"},
			{Name: "/home (user ann)", Used: 13, Total: 500e3, Unit: "files"},
			{Name: "/scratch (user ann)", Used: 341e3, Total: 10e6, Unit: "files"},
			{Name: "/project (group def-prof)", Used: 90e3, Total: 500e3, Unit: "files"},
			{Name: "Project (def-prof-ab)", Used: 2, Total: 500e3, Unit: "files"},
			{Name: "/project (project x)", Used: 5e3, Total: 10e3, Unit: "files"},
		}},
		{"quota, with a name that needs a line of its own", "slurm", "quota -s", `Disk quotas for user ann (uid 9999):
     Filesystem   space   quota   limit   grace   files   quota   limit   grace
tails1:/nfs/exports/sonic_home
                 89636K    160G    200G            2849       0       0
/dev/sda2         2034M*     0K  30720M               0       0       0
`, []api.Balance{
			{Name: "tails1:/nfs/exports/sonic_home", Used: 0.09, Total: 200, Unit: "GB"},
			{Name: "/dev/sda2", Used: 1.99, Total: 30, Unit: "GB"},
		}},
		{"quota without a quota", "slurm", "quota -s", "Disk quotas for user ann (uid 9999): none\n", nil},
		{"blocks", "frontier", "quota", "Disk quotas for user ann (uid 7):\n   Filesystem  blocks   quota   limit   grace   files   quota   limit   grace\n  /users 15728640 41943040 52428800            2000 0 0\n", []api.Balance{{Name: "/users", Used: 15, Total: 50, Unit: "GiB"}}},
		{"shares", "slurm", "sshare -U", `             Account       User  RawShares  NormShares    RawUsage  EffectvUsage  FairShare
-------------------- ---------- ---------- ----------- ----------- ------------- ----------
proj1                       ann          1    0.500000      180000      0.000000   0.000000
proj2                       ann     parent    0.500000        7200      0.000000   0.000000
 proj3                      ann          1                   36000      0.000000   0.000000
`, []api.Balance{{Name: "proj1", Used: 50, Unit: recentHours}, {Name: "proj2", Used: 2, Unit: recentHours}, {Name: "proj3", Used: 10, Unit: recentHours}}},
		{"NCAR", "derecho", "gladequota", `Current GLADE space usage: ann

  Space                                       Used        Quota      % Full    # Files
----------------------------------------- ------------ ------------ --------- -----------
/glade/derecho/scratch/ann                   26.61 TiB    30.00 TiB   88.70 %      374589
/glade/work/ann                               7.57 GiB     2.00 TiB    0.37 %      219680
`, []api.Balance{{Name: "/glade/derecho/scratch/ann", Used: 26.61, Total: 30, Unit: "TiB"}, {Name: "/glade/work/ann", Used: 0.01, Total: 2, Unit: "TiB"}}},
		{"CINECA", "leonardo", "saldo -b", `account                start         end         total        localCluster   totConsumed     totConsumed     monthTotal     monthConsumed
                                             (local h)   Consumed(local h)     (local h)               %      (local h)         (local h)
-----------------------------------------------------------------------------------------------------------------------------------------
CNHPC_15            20240711    20260430        640000              557186        557186            87.1             0                  0
`, []api.Balance{{Name: "CNHPC_15", Used: 557186, Total: 640000, Unit: "core-hours"}}},
		{"a disk", "workstation", "df -h ~", "Filesystem      Size  Used Avail Use% Mounted on\nglobal          3.4P  2.2P  1.2P  66% /global\n", []api.Balance{{Name: "/global", Used: 2.2, Total: 3.4, Unit: "PB"}}},
		{"another command", "narval", "sshare -l", "Description  /home (user ann)  0  B/  50GiB  13 / 500K\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			site, err := builtinSites(t).Find(tt.site)
			if err != nil {
				t.Fatal(err)
			}
			if got := site.Balances(tt.command, tt.output); !slices.Equal(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestAPatternForWhatIsLeft(t *testing.T) {
	site, err := parsed(t, `title = "x"
balance = ["mybalance"]
[read.account]
command = "mybalance"
pattern = '^(?P<name>\S+): (?P<left>\S+) of (?P<total>\S+) (?P<unit>\S+) left$'
example = "def-ann: 1,200.5 of 2,000 SUs left"
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []api.Balance{{Name: "def-ann", Used: 799.5, Total: 2000, Unit: "SUs"}, {Name: "b", Used: 1, Total: 1, Unit: "SUs"}, {Name: "over", Used: 13.5, Total: 10, Unit: "SUs"}}
	if got := site.Balances("mybalance", "def-ann: 1,200.5 of 2,000 SUs left\nb: 0 of 1 SUs left\nc: none of 1 SUs left\nover: -3.5 of 10 SUs left\n"); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestABadReaderIsRefused(t *testing.T) {
	const head = "title = \"x\"\nbalance = [\"quota -s\"]\n[read.disk]\n"
	for text, want := range map[string]string{
		"":                         "[read.disk] has no command",
		"command = \"quota -s\"\n": "[read.disk] has no pattern",
		"command = \"quota\"\npattern = '(?P<used>\\d+)'\nexample = \"7\"\n":                      "\"quota\" is not one of the site's balance commands",
		"command = \"quota -s\"\npattern = '(?P<used>\\d+'\nexample = \"7\"\n":                    "bad pattern: missing closing )",
		"command = \"quota -s\"\npattern = '(?P<usde>\\d+)'\nexample = \"7\"\n":                   "unknown group \"usde\"",
		"command = \"quota -s\"\npattern = '(?P<left>\\d+)'\nexample = \"7\"\n":                   "has no group named used, nor left and total",
		"command = \"quota -s\"\npattern = '(?P<used>\\d+)'\n":                                    "[read.disk] has no example",
		"command = \"quota -s\"\npattern = '(?P<used>\\w+)'\nexample = \"many\"\n":                "reads no number from the example",
		"command = \"quota -s\"\npattern = '(?P<used>\\d+)'\nexample = \"7\"\ndivide = \"two\"\n": "\"divide\" in [read.disk] must be a number",
	} {
		_, err := parseSite("x.toml", "x", []byte(head+text), func(string) (Site, bool) { return Site{}, false })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
