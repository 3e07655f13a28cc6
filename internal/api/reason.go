package api

// HintNeverStarts begins the hint of a queued job for which waiting does not help.
const HintNeverStarts = "the job will never start as submitted"

// ReasonSuspended is the reason of a running job whose processes are stopped.
const ReasonSuspended = "SUSPENDED"

// HintSpooled is the hint of a job whose output cannot be read before it ends.
const HintSpooled = "PBS keeps the output of this job on the node until it ends: add #PBS -k oed to the script, or redirect the output to a file"

// ReasonGone is the reason of a job that the scheduler no longer knows.
const ReasonGone = "Gone"
