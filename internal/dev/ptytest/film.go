//go:build unix

package ptytest

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// Film is a moving picture of a terminal, as an SVG that moves by CSS alone. What it shows after its last scene is
// also what it shows to who wants no motion.
type Film struct {
	columns, rows int
	body, style   strings.Builder
	scenes        int
	lasts, total  time.Duration
}

// The places in the picture, in pixels.
const (
	filmMargin, filmTop = 24, 52
	filmCell, filmLine  = 9.03, 21 // of a character at 15 pixels
)

// filmStyle is that of all scenes.
const filmStyle = `text{font:15px "DejaVu Sans Mono",ui-monospace,Menlo,Consolas,monospace;fill:#e3e6eb;white-space:pre}
.bold,.title{font-weight:bold}.c31{fill:#ff7b72}.c32{fill:#56d364}.c33{fill:#e3b341}.c90{fill:#949ca9}
.page text{font-family:system-ui,sans-serif;fill:#1d2733}.page .title{font-size:22px}.page .address{font-size:13px;fill:#5b6b7c}
.note{font-size:17px;text-anchor:middle}.scene{visibility:hidden}
`

// NewFilm is a film of so many lines of 80 columns that takes so long before it begins again.
func NewFilm(rows int, total time.Duration) *Film {
	return &Film{columns: 80, rows: rows, total: total}
}

func (f *Film) width() int { return 2*filmMargin + int(filmCell*float64(f.columns)) }

// height is that of the lines of the terminal and of its margins.
func (f *Film) height() int { return filmTop + filmLine*f.rows + filmMargin/2 }

// Scene adds a screen as [Program.HTML] has it, and what is in front of it: an element of SVG, or "".
func (f *Film) Scene(screen, front string, lasts time.Duration) {
	percent := func(d time.Duration) float64 { return 100 * float64(d) / float64(f.total) }
	fmt.Fprintf(&f.style, "@keyframes s%d{0%%{visibility:hidden}%.2f%%{visibility:visible}%.2f%%{visibility:hidden}}\n", f.scenes, percent(f.lasts), percent(f.lasts+lasts))
	fmt.Fprintf(&f.body, "<g class=\"scene\" style=\"animation-name:s%d\">\n", f.scenes)
	lines := strings.Split(screen, "\n")
	for i, line := range lines[max(0, len(lines)-f.rows):] {
		if line != "" {
			f.line(filmTop+filmLine*i+filmLine/2, line)
		}
	}
	f.body.WriteString(front + "</g>\n")
	f.scenes, f.lasts = f.scenes+1, f.lasts+lasts
}

var tag = regexp.MustCompile(`<[^>]*>`)

// line writes a line whose width does not depend on the font.
func (f *Film) line(y int, line string) {
	line = strings.ReplaceAll(line, `<span class="cursor"> </span>`, "█")
	cells := utf8.RuneCountInString(html.UnescapeString(tag.ReplaceAllString(line, "")))
	line = strings.NewReplacer("<span", "<tspan", "</span", "</tspan").Replace(line)
	fmt.Fprintf(&f.body, "<text x=\"%d\" y=\"%d\" textLength=\"%.0f\">%s</text>\n", filmMargin, y, filmCell*float64(cells), line)
}

// Note is a text in front of a screen that is dark.
func (f *Film) Note(text string) string {
	return fmt.Sprintf("<rect width=\"100%%\" height=\"100%%\" rx=\"10\" fill=\"#0b0d11\" opacity=\".8\"/><text class=\"note\" x=\"50%%\" y=\"50%%\">%s</text>\n", html.EscapeString(text))
}

// Page is a page of a browser in front of the screen.
func (f *Film) Page(address, title, text string) string {
	return fmt.Sprintf(`<g class="page" transform="translate(%d,%d)"><rect width="540" height="190" rx="10" fill="#f4f6f9" stroke="#4a515e"/>
<rect x="12" y="12" width="516" height="28" rx="14" fill="#fff"/><text class="address" x="28" y="31">%s</text>
<text class="title" x="28" y="90">%s</text><text x="28" y="122">%s</text></g>
`, f.width()-564, f.height()-214, html.EscapeString(address), html.EscapeString(title), html.EscapeString(text))
}

// SVG is the film. label says what it shows to who does not see it.
func (f *Film) SVG(label string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img" aria-label="%[3]s">
<style>%[4]s@media (prefers-reduced-motion:reduce){.scene:last-of-type{visibility:visible}}
@media (prefers-reduced-motion:no-preference){.scene{animation:%[5]gs step-end infinite}
%[6]s}</style>
<rect width="100%%" height="100%%" rx="10" fill="#1b1f27"/>
<g fill="#4a515e"><circle cx="30" cy="22" r="6"/><circle cx="50" cy="22" r="6"/><circle cx="70" cy="22" r="6"/></g>
%[7]s</svg>
`, f.width(), f.height(), html.EscapeString(label), filmStyle, f.total.Seconds(), f.style.String(), f.body.String())
}
