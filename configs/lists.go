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

// lastOf keeps of a list the last item of each name, in the place of the first.
func lastOf[T any](list []T, name func(T) string) []T {
	kept := list[:0]
	at := map[string]int{}
	for _, item := range list {
		i, found := at[name(item)]
		if found {
			kept[i] = item
			continue
		}
		at[name(item)] = len(kept)
		kept = append(kept, item)
	}
	return kept
}

// unique keeps the first of equal words.
func unique(words []string) []string { return lastOf(words, func(word string) string { return word }) }
