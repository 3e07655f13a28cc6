//go:build unix && !darwin

package tray

import (
	"embed"
	"strings"
)

// readsIconOnce says that some panels read the icon only when it is registered.
const readsIconOnce = true

//go:embed icons/xdg
var panelIcons embed.FS

// iconBytes is the icon in the form that this system's panel takes. Its pixels are whole
// or nothing: the library's D-Bus side mistakes the colours of half-transparent ones (it keeps the low byte of a
// premultiplied value), so it is large and left for the panel to smooth.
func iconBytes(kind iconKind) []byte {
	return iconFile(panelIcons, "icons/xdg/"+string(kind)+".png")
}

// label doubles the character that marks a shortcut in this system's menus.
func label(title string) string { return strings.ReplaceAll(title, "_", "__") }
