// Package suggest finds what the user probably meant: the known words nearest to
// one that was mistyped. It knows nothing of what the words stand for.
package suggest

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// longest is the longest word, in characters, that is compared. Nobody mistypes
// a longer one, and comparing costs the product of both lengths.
const longest = 64

// Nearest returns those of among that word could be a slip of, nearest first;
// words equally near keep their order. Letter case, and a hyphen written for an
// underscore, count for nothing. A word of two letters or more is also near to
// what it begins, and one with a part too many, such as local_port, to the rest of it.
func Nearest(word string, among []string) []string {
	distances := map[string]int{}
	near := slices.DeleteFunc(slices.Clone(among), func(candidate string) bool {
		d, ok := slip(fold(word), fold(candidate))
		distances[candidate] = d
		return !ok
	})
	slices.SortStableFunc(near, func(a, b string) int { return distances[a] - distances[b] })
	return near
}

// NearestFirst returns all of among, those first that word could be a slip of.
func NearestFirst(word string, among []string) []string {
	all := Nearest(word, among)
	for _, candidate := range among {
		if !slices.Contains(all, candidate) {
			all = append(all, candidate)
		}
	}
	return all
}

// Hint asks whether the nearest of among was meant, and lists them all, the nearest first; ""
// if there are none.
func Hint(word string, among []string) string {
	if len(among) == 0 {
		return ""
	}
	meant := strings.TrimPrefix(DidYouMean(word, among), "; ")
	if meant != "" && len(among) == 1 {
		return meant
	}
	return strings.TrimSpace(meant + " available: " + strings.Join(NearestFirst(word, among), ", "))
}

func fold(word string) string {
	return strings.ReplaceAll(strings.ToLower(word), "-", "_")
}

// slip reports whether typed could be a slip of wanted, and how bad a one.
func slip(typed, wanted string) (distance int, ok bool) {
	n, m := utf8.RuneCountInString(typed), utf8.RuneCountInString(wanted)
	if n == 0 || m == 0 || n > longest || m > longest {
		return 0, false
	}
	if n >= 2 && n < m && strings.HasPrefix(wanted, typed) {
		return 0, true
	}
	if strings.HasPrefix(typed, wanted+"_") {
		return m, true
	}
	d := edits([]rune(typed), []rune(wanted))
	// One slip in every three letters, and never a whole word.
	allowed := max(1, max(n, m)/3)
	return d, d <= allowed && d < min(n, m)
}

// edits counts the letters to insert, delete, replace, or swap with a neighbour
// to get from a to b.
func edits(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// DidYouMean ends a message about an unknown word with the nearest known one, if any is near.
func DidYouMean(typed string, among []string) string {
	near := Nearest(typed, among)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + near[0] + "?"
}
