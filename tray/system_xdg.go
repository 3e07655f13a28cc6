//go:build unix && !darwin

package tray

import "strings"

// readsIconOnce says that some panels read the icon only when it is registered.
const readsIconOnce = true

// iconBytes is the icon in the form that this system's panel takes.
func iconBytes(kind iconKind) []byte {
	img := drawIcon(kind, 64)
	hardEdges(img)
	return pngOf(img)
}

// label doubles the character that marks a shortcut in this system's menus.
func label(title string) string { return strings.ReplaceAll(title, "_", "__") }
