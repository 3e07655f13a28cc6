package configs

import "slices"

// each returns what f makes of every item.
func each[T, R any](list []T, f func(T) R) []R {
	made := make([]R, len(list))
	for i, item := range list {
		made[i] = f(item)
	}
	return made
}

// find returns the first item that fits, if one does.
func find[T any](list []T, fits func(T) bool) (item T, ok bool) {
	if i := slices.IndexFunc(list, fits); i >= 0 {
		return list[i], true
	}
	return item, false
}

// put replaces the first item that fits, or adds one.
func put[T any](list []T, item T, fits func(T) bool) []T {
	if i := slices.IndexFunc(list, fits); i >= 0 {
		list[i] = item
		return list
	}
	return append(list, item)
}
