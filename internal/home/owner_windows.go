package home

import "io/fs"

// ownedByUs trusts the ACLs of %LocalAppData%, which only its user can enter.
func ownedByUs(fs.FileInfo) bool { return true }
