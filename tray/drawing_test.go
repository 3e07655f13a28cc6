package tray

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
)

// The colours stand out from white panels and from black ones; a test measures it.
var iconColours = map[iconKind]color.NRGBA{
	iconIdle:     {0x80, 0x84, 0x88, 0xff},
	iconCharged:  {0x95, 0x5a, 0xd6, 0xff},
	iconWorking:  {0x2f, 0x80, 0xed, 0xff},
	iconReady:    {0x1e, 0x96, 0x4b, 0xff},
	iconNeedsYou: {0xd0, 0x6f, 0x00, 0xff},
	iconTrouble:  {0xd9, 0x30, 0x3a, 0xff},
}

// point is a place in the icon, which spans -1 to 1 both ways, y down.
type point struct{ x, y float64 }

// covers says what covers p in an icon: its body, in its colour, and a white mark on that.
func covers(kind iconKind, p point) (body, mark bool) {
	r := math.Hypot(p.x, p.y)
	switch kind {
	case iconIdle:
		body = r < 0.9 && r > 0.56
	case iconCharged:
		body = r < 0.95 && r > 0.7 || r < 0.45
	case iconWorking:
		gap := p.x > 0 && p.y < 0 // the open quarter, where the dot is
		body = r < 0.9 && r > 0.56 && !gap || near(p, point{0.52, -0.52}, point{0.52, -0.52}, 0.26) || r < 0.24
	case iconReady:
		body = r < 0.95
		mark = near(p, point{-0.45, 0.05}, point{-0.12, 0.4}, 0.13) || near(p, point{-0.12, 0.4}, point{0.48, -0.34}, 0.13)
	case iconNeedsYou:
		// A triangle with rounded corners: within a distance of a smaller one.
		body = inTriangle(p, point{0, -0.72}, point{0.76, 0.7}, point{-0.76, 0.7}, 0.2)
		mark = near(p, point{0, -0.32}, point{0, 0.18}, 0.14) || near(p, point{0, 0.55}, point{0, 0.55}, 0.15)
	case iconTrouble:
		body = math.Max(math.Abs(p.x), math.Abs(p.y)) < 0.88
		mark = near(p, point{-0.4, -0.4}, point{0.4, 0.4}, 0.14) || near(p, point{-0.4, 0.4}, point{0.4, -0.4}, 0.14)
	}
	return body, mark
}

// near reports whether p is within reach of the stroke from a to b.
func near(p, a, b point, reach float64) bool {
	dx, dy := b.x-a.x, b.y-a.y
	t := 0.0
	if length := dx*dx + dy*dy; length > 0 {
		t = min(1, max(0, ((p.x-a.x)*dx+(p.y-a.y)*dy)/length))
	}
	return math.Hypot(p.x-a.x-t*dx, p.y-a.y-t*dy) < reach
}

// inTriangle reports whether p is in the triangle a, b, c, given clockwise, or
// within reach of its sides.
func inTriangle(p, a, b, c point, reach float64) bool {
	side := func(from, to point) float64 { return (to.x-from.x)*(p.y-from.y) - (to.y-from.y)*(p.x-from.x) }
	inside := side(a, b) >= 0 && side(b, c) >= 0 && side(c, a) >= 0
	return inside || near(p, a, b, reach) || near(p, b, c, reach) || near(p, c, a, reach)
}

// drawIcon draws an icon of size by size pixels, each from many samples.
func drawIcon(kind iconKind, size int) *image.NRGBA {
	const samples = 8
	colour := iconColours[kind]
	img := image.NewNRGBA(image.Rect(0, 0, size, size))
	for y := range size {
		for x := range size {
			var coloured, marked int
			for i := range samples * samples {
				at := func(pixel, sub int) float64 {
					return (float64(pixel)+(float64(sub)+0.5)/samples)/float64(size)*2 - 1
				}
				switch body, mark := covers(kind, point{at(x, i%samples), at(y, i/samples)}); {
				case mark:
					marked++
				case body:
					coloured++
				}
			}
			img.SetNRGBA(x, y, blend(colour, coloured, marked, samples*samples))
		}
	}
	return img
}

// blend is the colour of a pixel of which some samples are covered.
func blend(c color.NRGBA, coloured, marked, all int) color.NRGBA {
	covered := coloured + marked
	if covered == 0 {
		return color.NRGBA{}
	}
	mix := func(v uint8) uint8 { return uint8((int(v)*coloured + 0xff*marked) / covered) }
	return color.NRGBA{mix(c.R), mix(c.G), mix(c.B), uint8(0xff * covered / all)}
}

// hardEdges makes every pixel whole or nothing. The library's D-Bus side mistakes
// the colours of half-transparent pixels (it keeps the low byte of a premultiplied
// value), so its icon is drawn large and left for the panel to smooth.
func hardEdges(img *image.NRGBA) {
	for i := 3; i < len(img.Pix); i += 4 {
		if img.Pix[i] < 0x80 {
			img.Pix[i] = 0
		} else {
			img.Pix[i] = 0xff
		}
	}
}

func pngOf(img image.Image) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(fmt.Sprintf("tray: encode an icon: %v", err)) // a buffer takes everything
	}
	return b.Bytes()
}

// ico packs PNGs of several sizes in a Windows icon: a header, a directory of 16
// bytes for each, and the pictures as they are.
func ico(kind iconKind, sizes ...int) []byte {
	le := binary.LittleEndian
	head := le.AppendUint16(nil, 0)
	head = le.AppendUint16(head, 1) // an icon
	head = le.AppendUint16(head, uint16(len(sizes)))
	var pictures []byte
	start := len(head) + 16*len(sizes)
	for _, size := range sizes {
		picture := pngOf(drawIcon(kind, size))
		head = append(head, byte(size), byte(size), 0, 0) // width, height, no palette
		head = le.AppendUint16(head, 1)                   // planes
		head = le.AppendUint16(head, 32)                  // bits a pixel
		head = le.AppendUint32(head, uint32(len(picture)))
		head = le.AppendUint32(head, uint32(start+len(pictures)))
		pictures = append(pictures, picture...)
	}
	return append(head, pictures...)
}
