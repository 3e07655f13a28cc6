// Package lists has what the standard library's slices lacks.
package lists

import "slices"

// Map returns what f makes of every item.
func Map[T, R any](list []T, f func(T) R) []R {
	made := make([]R, len(list))
	for i, item := range list {
		made[i] = f(item)
	}
	return made
}

// Find returns the first item that fits; zero if none does.
func Find[T any](list []T, fits func(T) bool) (found T) {
	if i := slices.IndexFunc(list, fits); i >= 0 {
		found = list[i]
	}
	return found
}
