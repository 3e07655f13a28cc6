package home

import (
	"errors"
	"slices"
)

// FullDiskHint is what a person can do about a write that failed because the disk is
// full or the quota used up; "" for other errors.
func FullDiskHint(err error) string {
	if slices.ContainsFunc(fullDisk, func(full error) bool { return errors.Is(err, full) }) {
		return "free disk space, then try again"
	}
	return ""
}
