package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
)

// icnsPictures are the pictures in a macOS icon: each type stands for a size in points,
// and some for a display with two pixels to a point.
var icnsPictures = []struct {
	kind   string
	pixels int
}{
	{"ic11", 32}, {"ic12", 64}, {"ic07", 128}, {"ic13", 256}, {"ic08", 256}, {"ic14", 512}, {"ic09", 512},
}

// icns is packaging/tunctl.svg as an icon of macOS: a header and PNGs, each behind its
// type and its length.
func icns() []byte {
	be := binary.BigEndian
	var body []byte
	pngs := map[int][]byte{}
	for _, p := range icnsPictures {
		if pngs[p.pixels] == nil {
			pngs[p.pixels] = encodePNG(drawIcon(p.pixels))
		}
		body = append(body, p.kind...)
		body = be.AppendUint32(body, uint32(8+len(pngs[p.pixels])))
		body = append(body, pngs[p.pixels]...)
	}
	return append(be.AppendUint32([]byte("icns"), uint32(8+len(body))), body...)
}

func encodePNG(img image.Image) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(fmt.Sprintf("release: encode an icon: %v", err)) // a buffer takes everything
	}
	return b.Bytes()
}

// The icon's colours.
var (
	iconArch   = color.NRGBA{0x1f, 0x6f, 0xeb, 0xff}
	iconTunnel = color.NRGBA{0x0b, 0x2a, 0x5b, 0xff}
	iconRoad   = color.NRGBA{0xff, 0xff, 0xff, 0xff}
)

// colourAt is what packaging/tunctl.svg shows at a point; its side is 64. A test
// compares the numbers with those in the file.
func colourAt(x, y float64) color.NRGBA {
	switch {
	case onRoad(x, y, 54, 48) || onRoad(x, y, 40, 37):
		return iconRoad
	case inArch(x, y, 35, 14):
		return iconTunnel
	case inArch(x, y, 34, 26):
		return iconArch
	}
	return color.NRGBA{}
}

// inArch reports whether a point is below a half circle, and above the ground.
func inArch(x, y, centre, radius float64) bool {
	if y > centre {
		return y < 54 && math.Abs(x-32) < radius
	}
	return math.Hypot(x-32, y-centre) < radius
}

// onRoad reports whether a point is on a line of the road, whose ends are round.
func onRoad(x, y, from, to float64) bool {
	return math.Hypot(x-32, y-min(from, max(to, y))) < 2.5
}

// drawIcon draws the icon, each pixel from several samples.
func drawIcon(size int) *image.NRGBA {
	const samples = 4
	img := image.NewNRGBA(image.Rect(0, 0, size, size))
	step := 64 / float64(size*samples)
	for y := range size {
		for x := range size {
			var red, green, blue, covered int
			for i := range samples * samples {
				c := colourAt((float64(x*samples+i%samples)+0.5)*step, (float64(y*samples+i/samples)+0.5)*step)
				if c.A > 0 {
					red, green, blue, covered = red+int(c.R), green+int(c.G), blue+int(c.B), covered+1
				}
			}
			if covered > 0 {
				img.SetNRGBA(x, y, color.NRGBA{
					uint8(red / covered), uint8(green / covered), uint8(blue / covered), uint8(0xff * covered / (samples * samples)),
				})
			}
		}
	}
	return img
}
