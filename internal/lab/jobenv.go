package lab

import "strconv"

// jobEnv is what the batch system adds to a job's environment.
func (b *batch) jobEnv(j *job) environment {
	b.mu.Lock() // its time limit may be altered as soon as it counts as running
	defer b.mu.Unlock()
	env := environment{"HOSTNAME=" + j.Node, "TUNCTL_PRACTICE_JOB=" + j.ID}
	if b.jupyter {
		env = append(env, "TUNCTL_PRACTICE_JUPYTER=1")
	}
	if b.c.dialect == PBS {
		return append(env, b.pbsEnv(j)...)
	}
	return append(env, slurmEnv(j)...)
}

func slurmEnv(j *job) environment {
	env := environment{
		"SLURM_JOB_ID=" + j.ID, "SLURM_JOBID=" + j.ID, "SLURM_JOB_NAME=" + j.Name,
		"SLURM_JOB_NODELIST=" + j.Node, "SLURM_NODELIST=" + j.Node, "SLURMD_NODENAME=" + j.Node,
		"SLURM_JOB_PARTITION=" + j.queue, "SLURM_JOB_ACCOUNT=" + j.account, "SLURM_JOB_USER=" + user,
		"SLURM_CLUSTER_NAME=" + alias, "SLURM_SUBMIT_DIR=" + j.workDir, "SLURM_SUBMIT_HOST=" + loginNode,
		"SLURM_JOB_NUM_NODES=1", "SLURM_NNODES=1", "SLURM_CPUS_ON_NODE=1", "SLURM_NODEID=0", "SLURM_PROCID=0",
		"SLURM_JOB_END_TIME=" + strconv.FormatInt(j.Started.Add(j.limit).Unix(), 10),
		"ENVIRONMENT=BATCH",
	}
	if j.Restarts > 0 {
		env = append(env, "SLURM_RESTART_COUNT="+strconv.Itoa(j.Restarts))
	}
	return env
}

func (b *batch) pbsEnv(j *job) environment {
	return environment{
		"ENVIRONMENT=BATCH", "PBS_ENVIRONMENT=PBS_BATCH", "PBS_JOBID=" + j.ID, "PBS_JOBNAME=" + j.Name,
		"PBS_JOBDIR=" + b.c.Home(), "PBS_QUEUE=" + j.queue, "PBS_NODEFILE=" + j.nodeFile(),
		"PBS_NODENUM=0", "PBS_TASKNUM=1", "NCPUS=1", "OMP_NUM_THREADS=1",
		"PBS_O_HOME=" + b.c.Home(), "PBS_O_HOST=" + loginNode, "PBS_O_LANG=C.UTF-8", "PBS_O_LOGNAME=" + user,
		"PBS_O_QUEUE=" + j.queue, "PBS_O_SHELL=/bin/bash", "PBS_O_SYSTEM=Linux", "PBS_O_WORKDIR=" + j.workDir,
	}
}
