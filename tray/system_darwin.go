package tray

import "embed"

const readsIconOnce = false // see system_xdg.go

//go:embed icons/darwin
var panelIcons embed.FS

// iconBytes is the icon in the form that this system's panel takes: 22 points, doubled.
func iconBytes(kind iconKind) []byte {
	return iconFile(panelIcons, "icons/darwin/"+string(kind)+".png")
}

// label is the title: menus of this system mark no shortcuts.
func label(title string) string { return title }
