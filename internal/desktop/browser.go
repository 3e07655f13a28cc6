package desktop

import "strings"

// browsers lists the command lines that would show url, best first; none when
// nothing here can.
func browsers(goos string, env environ, url string) [][]string {
	list := chosenBrowsers(env["BROWSER"], url)
	switch {
	case goos == "windows":
		list = append(list, []string{"rundll32.exe", "url.dll,FileProtocolHandler", url})
	case goos == "darwin":
		list = append(list, []string{"open", url})
	case env.wsl():
		list = append(list, []string{"wslview", url}, []string{"rundll32.exe", "url.dll,FileProtocolHandler", url})
	case env.graphical():
		list = append(list, []string{"xdg-open", url}, []string{"gio", "open", url})
		for _, name := range []string{"sensible-browser", "x-www-browser", "firefox", "chromium", "google-chrome"} {
			list = append(list, []string{name, url})
		}
	}
	return list
}

// chosenBrowsers reads $BROWSER: commands separated by colons, each with %s where
// the address goes, or with the address last.
func chosenBrowsers(value, url string) [][]string {
	var list [][]string
	for entry := range strings.SplitSeq(value, ":") {
		words := strings.Fields(entry)
		if len(words) == 0 {
			continue
		}
		placed := false
		for i, w := range words[1:] {
			if strings.Contains(w, "%s") {
				words[i+1] = strings.ReplaceAll(w, "%s", url)
				placed = true
			}
		}
		if !placed {
			words = append(words, url)
		}
		list = append(list, words)
	}
	return list
}
