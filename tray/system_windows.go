package tray

import (
	"embed"
	"strings"
)

const readsIconOnce = false // see system_xdg.go

//go:embed icons/windows
var panelIcons embed.FS

// iconBytes is the icon in the form that this system's panel takes, in all its sizes.
func iconBytes(kind iconKind) []byte {
	return iconFile(panelIcons, "icons/windows/"+string(kind)+".ico")
}

// label doubles the character that marks a shortcut in this system's menus.
func label(title string) string { return strings.ReplaceAll(title, "&", "&&") }
