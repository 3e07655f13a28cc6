package tray

import "strings"

const readsIconOnce = false // see system_xdg.go

// iconBytes is the icon in the form that this system's panel takes.
func iconBytes(kind iconKind) []byte { return ico(kind, 16, 20, 24, 32, 48, 64) }

// label doubles the character that marks a shortcut in this system's menus.
func label(title string) string { return strings.ReplaceAll(title, "&", "&&") }
