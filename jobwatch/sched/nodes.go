package sched

import (
	"fmt"
	"strconv"
	"strings"
)

// SeveralNodes is a list of nodes, "" if it has but one.
func SeveralNodes(list string) string {
	list = strings.TrimSpace(list)
	if strings.ContainsAny(list, ",[") {
		return list
	}
	return ""
}

// ExpandNodes expands Slurm's notation for nodes, to at most that many: cn[01-02,07],gpu[1-2]n[0-1],login.
func ExpandNodes(list string, most int) []string {
	names := []string{""}
	var all []string
	for list != "" && len(all)+len(names) <= most {
		switch list[0] {
		case ',':
			all, names, list = append(all, names...), []string{""}, list[1:]
		case '[':
			inside, rest, _ := strings.Cut(list[1:], "]")
			names, list = product(names, expandRanges(inside, most), most), rest
		default:
			end := strings.IndexAny(list, ",[")
			if end < 0 {
				end = len(list)
			}
			names, list = product(names, []string{list[:end]}, most), list[end:]
		}
	}
	all = append(all, names...)
	return all[:min(len(all), most)]
}

// product appends each end to each name.
func product(names, ends []string, most int) []string {
	var list []string
	for _, name := range names {
		for _, end := range ends {
			if len(list) == most {
				return list
			}
			list = append(list, name+end)
		}
	}
	return list
}

// expandRanges expands 01-03,07; the numbers are as wide as the first is written.
func expandRanges(text string, most int) []string {
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if !isRange || err1 != nil || err2 != nil {
			list = append(list, part)
			continue
		}
		for i := from; i <= to && len(list) < most; i++ {
			list = append(list, fmt.Sprintf("%0*d", len(first), i))
		}
	}
	return list
}
