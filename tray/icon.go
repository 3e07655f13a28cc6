package tray

import (
	"bytes"
	"embed"
	"image"
	"image/png"
)

// iconKind is the state that the icon shows. Each kind has its own colour and its own
// outline, for people who do not see the colours.
type iconKind string

// The kinds of the icon.
const (
	iconIdle     iconKind = "idle"      // nothing is up: a grey ring
	iconCharged  iconKind = "charged"   // a job runs without its session: a violet ring around a dot
	iconWorking  iconKind = "working"   // in progress: a blue ring, open, with two dots
	iconReady    iconKind = "ready"     // a green disc with a tick
	iconNeedsYou iconKind = "needs-you" // an amber triangle with a stroke and a dot
	iconTrouble  iconKind = "trouble"   // a red square with a cross
)

// noteIcons are the icons of notifications, 96 pixels wide. The tests draw these and those of panels.
//
//go:embed icons/note
var noteIcons embed.FS

// noteIcon is the icon of a notification.
func noteIcon(kind iconKind) *image.NRGBA {
	img, _ := png.Decode(bytes.NewReader(iconFile(noteIcons, "icons/note/"+string(kind)+".png")))
	icon, _ := img.(*image.NRGBA) // the tests read all
	return icon
}

// iconFile reads an icon, of which there is one of each kind: the tests read all.
func iconFile(icons embed.FS, name string) []byte {
	data, _ := icons.ReadFile(name)
	return data
}
