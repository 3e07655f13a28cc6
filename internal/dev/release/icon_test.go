package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image/color"
	"image/png"
	"os"
	"strings"
	"testing"
)

func TestTheIconIsPicturesOfTheSizesThatMacOSAsksFor(t *testing.T) {
	data := icns()
	if string(data[:4]) != "icns" || int(binary.BigEndian.Uint32(data[4:])) != len(data) {
		t.Fatalf("the header is %q", data[:8])
	}
	for _, want := range icnsPictures {
		kind, length := string(data[8:12]), binary.BigEndian.Uint32(data[12:])
		picture, err := png.DecodeConfig(bytes.NewReader(data[16 : 8+length]))
		if err != nil || kind != want.kind || picture.Width != want.pixels || picture.Height != want.pixels {
			t.Errorf("%s is %d by %d, %v", kind, picture.Width, picture.Height, err)
		}
		data = data[length:]
	}
	if len(data) != 8 {
		t.Errorf("%d bytes more", len(data)-8)
	}
}

func TestTheIconIsThatOfOtherDesktops(t *testing.T) {
	svg, err := os.ReadFile("../../../packaging/tunctl.svg")
	if err != nil {
		t.Fatal(err)
	}
	for what, drawn := range map[string]string{
		"the arch":   fmt.Sprintf(`d="M6 54V34a26 26 0 0 1 52 0v20z" fill="%s"`, hexColour(iconArch)),
		"the tunnel": fmt.Sprintf(`d="M18 54V35a14 14 0 0 1 28 0v19z" fill="%s"`, hexColour(iconTunnel)),
		"the road":   `d="M32 54V37" stroke="#fff" stroke-width="5" stroke-linecap="round" stroke-dasharray="6 8"`,
	} {
		if !strings.Contains(string(svg), drawn) {
			t.Errorf("%s changed in the file, but not in colourAt:\n%s", what, svg)
		}
	}
	img := drawIcon(64)
	for _, p := range []struct {
		x, y int
		want color.NRGBA
	}{{2, 2, color.NRGBA{}}, {10, 50, iconArch}, {32, 12, iconArch}, {22, 50, iconTunnel}, {32, 44, iconTunnel}, {32, 50, iconRoad}, {10, 58, color.NRGBA{}}} {
		if got := img.NRGBAAt(p.x, p.y); got != p.want {
			t.Errorf("at %d, %d is %v, want %v", p.x, p.y, got, p.want)
		}
	}
}

func hexColour(c color.NRGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }
