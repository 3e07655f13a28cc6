package show

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"tunctl/internal/api"
	"tunctl/internal/term"
)

// Balances has a row per balance, with how full it is.
func Balances(balances []api.Balance) *term.Table {
	t := &term.Table{Header: []string{"BALANCE", "USED", "OF", "FULL"}, Whole: []string{"USED", "OF"}}
	for _, b := range balances {
		used, of, bar, colour := amountText(b.Used)+unitText(b), "-", "-", ""
		if b.Total > 0 {
			used, of = amountText(b.Used), amountText(b.Total)+unitText(b)
			bar, colour = quotaBar(b.Used/b.Total), quotaColour(b.Used/b.Total)
		}
		t.Add(nil, term.Cell{Text: b.Name, Colour: term.Bold}, term.Cell{Text: used}, term.Cell{Text: of}, term.Cell{Text: bar, Colour: colour})
	}
	return t
}

// Balance is a balance in words: "12 of 50 GiB".
func Balance(b api.Balance) string {
	if b.Total == 0 {
		return amountText(b.Used) + unitText(b)
	}
	return amountText(b.Used) + " of " + amountText(b.Total) + unitText(b)
}

func unitText(b api.Balance) string { return strings.TrimSuffix(" "+b.Unit, " ") }

// amountText writes a number with spaces between its thousands: "1 160 939", "26.61".
func amountText(n float64) string {
	text := strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64)
	whole, rest, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && len(whole) > 4; i -= 3 {
		whole = whole[:i] + " " + whole[i:]
	}
	if rest != "" {
		whole += "." + rest
	}
	return whole
}

const quotaBarWidth = 10

// quotaBar is a bar with a percentage. It is full only if the quota is.
func quotaBar(part float64) string {
	filled := min(max(int(part*quotaBarWidth), 0), quotaBarWidth)
	return strings.Repeat("█", filled) + strings.Repeat("░", quotaBarWidth-filled) + fmt.Sprintf(" %3.0f%%", math.Floor(part*100))
}

// quotaColour warns before a quota is used up.
func quotaColour(part float64) string {
	switch {
	case part >= 0.95:
		return term.Red
	case part >= 0.8:
		return term.Yellow
	}
	return term.Green
}
