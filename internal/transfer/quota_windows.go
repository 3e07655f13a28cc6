package transfer

import "syscall"

// errQuota is ERROR_DISK_QUOTA_EXCEEDED.
const errQuota = syscall.Errno(1295)
