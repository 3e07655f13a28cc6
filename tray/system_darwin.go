package tray

const readsIconOnce = false // see system_xdg.go

// iconBytes is the icon in the form that this system's panel takes: 22 points, doubled.
func iconBytes(kind iconKind) []byte { return pngOf(drawIcon(kind, 44)) }

// label is the title: menus of this system mark no shortcuts.
func label(title string) string { return title }
