package slurm

import "testing"

func TestPartitionRouter(t *testing.T) {
	for line, want := range map[string]bool{
		"PartitionName=route Default=YES State=INACTIVE MaxTime=2-00:00:00 AllowGroups=ALL": true,
		"PartitionName=old Default=NO State=INACTIVE MaxTime=2-00:00:00 AllowGroups=ALL":    false,
		"PartitionName=main Default=YES State=DOWN MaxTime=2-00:00:00 AllowGroups=ALL":      false,
	} {
		if p, ok := readPartition(line, nil, nil); ok != want || ok && !p.Default {
			t.Errorf("%s: %+v, %v", line, p, ok)
		}
	}
}
