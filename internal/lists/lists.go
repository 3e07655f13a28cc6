// Package lists has what the standard library's slices lacks.
package lists

// Map returns what f makes of every item.
func Map[T, R any](list []T, f func(T) R) []R {
	made := make([]R, len(list))
	for i, item := range list {
		made[i] = f(item)
	}
	return made
}
