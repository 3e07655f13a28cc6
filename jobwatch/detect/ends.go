package detect

// endRules notice that a server, or its whole job, is over. A server whose last words
// are not known here ends with its job.
var endRules = []rule{
	{
		act: endsJob, needle: "cancelled at", desc: "Slurm ended the job",
		re: lazyPattern(`\*\*\* (?:JOB|STEP) .*CANCELLED AT`),
	},
	{act: endsJob, needle: "pbs: job killed", desc: "PBS ended the job", re: lazyPattern(`=>> PBS: job killed`)},
	{act: endsJob, needle: "term_", desc: "LSF ended the job", re: lazyPattern(`\bTERM_[A-Z]+: job killed`)},
	{
		act: endsJob, needle: "srun:", desc: "Slurm ended the job's step",
		re: lazyPattern(`srun: (?:Force Terminated|forcing job termination|Job step aborted|error: \S+: tasks? .*: (?:Killed|Terminated|Exited|Out Of Memory))`),
	},
	{act: endsJob, needle: "memory limit", desc: "Slurm killed the job: memory limit exceeded", re: lazyPattern(`slurmstepd.*(?:exceeded memory limit .*being killed|Exceeded job memory limit)`)},
	{act: endsJob, needle: "resource usage on", desc: "PBS's closing report", re: lazyPattern(`^\s*Resource Usage on \d{4}-`)},
	{act: endsJob, needle: "execution finished", desc: "the job script has finished", re: lazyPattern(`(?i)\bjob \S+ execution finished`)},
	{
		app: appJupyter, act: ends, needle: "received signal", desc: "the server was told to stop",
		re: lazyPattern(`\] received signal \d+, stopping`),
	},
	{
		app: appJupyter, act: ends, needle: "shutting down", desc: "the server is shutting down",
		re: lazyPattern(`(?:App|SingleUser\w*)\b[^\]]*\] .*?\b[Ss]hutting down(?: \d+ (?:kernel|extension|terminal)s?| kernels| on /api/shutdown|\.?$)`),
	},
	{app: appJupyter, act: ends, needle: "shutdown confirmed", desc: "the server was stopped by a user", re: lazyPattern(`\] Shutdown confirmed`)},
	{
		app: appJupyter, act: fails, needle: "could not be started", desc: "the server could not start",
		re: lazyPattern(`(?i)ERROR: the (?:notebook|jupyter) server could not be started`),
	},
	{
		app: appJupyter, act: fails, needle: "not found", desc: "Jupyter is not installed",
		re: lazyPattern(`(?i)jupyter[\w-]*: (?:command )?not found|command not found: jupyter|Jupyter command .jupyter-[\w-]+. not found|"jupyter[\w-]*": executable file not found`),
	},
	{
		app: appJupyter, act: fails, needle: "no module named", desc: "Jupyter is not installed",
		re: lazyPattern(`No module named ['"]?(?:jupyter|jupyterlab|notebook)['"]?\s*$`),
	},
	{app: appJupyter, act: fails, needle: "error executing jupyter", desc: "Jupyter is not installed", re: lazyPattern(`Error executing Jupyter command`)},
	{
		app: appJupyter, act: fails, needle: "running as root", desc: "Jupyter refuses to run as root",
		re: lazyPattern(`Running as root is not recommended`),
	},
	{app: appDask, act: ends, needle: "scheduler", desc: "the scheduler stops", re: lazyPattern(`distributed\.scheduler - INFO - (?:End scheduler|Stopped scheduler|Scheduler closing)`)},
	{app: appSpark, act: ends, needle: "stopped spark", desc: "the Spark page stops", re: lazyPattern(`Stopped Spark web UI at`)},
	{app: appStreamlit, act: ends, needle: "stopping...", desc: "Streamlit stops", re: lazyPattern(`^\s*Stopping\.\.\.\s*$`)},
	{app: appGradio, act: ends, needle: "closing server", desc: "Gradio stops", re: lazyPattern(`Keyboard interruption in main thread\.\.\. closing server`)},
	{app: appVNC, act: ends, needle: "killing xvnc", desc: "the VNC server was killed", re: lazyPattern(`Killing Xvnc process ID \d+`)},
	{app: appParaView, act: ends, needle: "exiting...", late: true, desc: "ParaView's server stops", re: lazyPattern(`^\s*Exiting\.\.\.\s*$`)},
	{app: appPluto, act: ends, needle: "closing pluto", desc: "Pluto stops", re: lazyPattern(`Closing Pluto\.\.\.`)},
	{act: ends, needle: "killed", needsApp: true, desc: killedWords, re: killed},
	{act: ends, needle: "terminated", needsApp: true, desc: killedWords, re: killed},
	// Uvicorn is vLLM's server, too.
	{app: appVLLM, act: ends, needle: "finished server process", late: true, desc: "vLLM stops", re: uvicornEnd},
	{app: appWeb, act: ends, needle: "finished server process", desc: "the web server stops", re: uvicornEnd},
	{app: appWeb, act: ends, needle: "shutting down: master", desc: "the web server stops", re: lazyPattern(`Shutting down: Master`)},
	{app: appWeb, act: ends, needle: "keyboard interrupt received", desc: "the web server stops", re: lazyPattern(`Keyboard interrupt received, exiting`)},
}

var uvicornEnd = lazyPattern(`Finished server process \[\d+\]`)

// killed matches the shell's message about a command that a signal ended:
//
//	/var/spool/slurmd/job7/slurm_script: line 9: 4711 Killed   jupyter lab --no-browser
var killed = lazyPattern(`: line \d+:\s+\d+ (?:Killed|Terminated|Segmentation fault|Bus error|Aborted)\b`)

const killedWords = "the shell reported that the server died"
