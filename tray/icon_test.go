package tray

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tunctl/internal/dev/must"
)

var iconKinds = []iconKind{iconIdle, iconCharged, iconWorking, iconReady, iconNeedsYou, iconTrouble}

// TestIconFiles compares the icons with their drawings. With TUNCTL_UPDATE_ICONS=1 it writes them.
func TestIconFiles(t *testing.T) {
	for _, kind := range iconKinds {
		xdg := drawIcon(kind, 64)
		hardEdges(xdg)
		for file, want := range map[string][]byte{
			"note/" + string(kind) + ".png":    pngOf(drawIcon(kind, 96)),
			"xdg/" + string(kind) + ".png":     pngOf(xdg),
			"darwin/" + string(kind) + ".png":  pngOf(drawIcon(kind, 44)),
			"windows/" + string(kind) + ".ico": ico(kind, 16, 20, 24, 32, 48, 64),
		} {
			file = filepath.Join("icons", file)
			if os.Getenv("TUNCTL_UPDATE_ICONS") != "" {
				must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
				must.Do(t, os.WriteFile(file, want, 0o644))
			}
			got, err := os.ReadFile(file)
			must.Do(t, err)
			if !bytes.Equal(got, want) {
				t.Errorf("%s is not as it is drawn: TUNCTL_UPDATE_ICONS=1 go test ./tray -run IconFiles", file)
			}
		}
		if len(iconBytes(kind)) == 0 || !slices.Equal(noteIcon(kind).Pix, drawIcon(kind, 96).Pix) {
			t.Errorf("the program shows %s otherwise", kind)
		}
	}
}

// luminance and contrast are as WCAG 2 defines them.
func luminance(c color.NRGBA) float64 {
	part := func(v uint8) float64 {
		x := float64(v) / 255
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	return 0.2126*part(c.R) + 0.7152*part(c.G) + 0.0722*part(c.B)
}

func contrast(a, b color.NRGBA) float64 {
	la, lb := luminance(a), luminance(b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

func TestIconContrast(t *testing.T) {
	for _, kind := range iconKinds {
		for name, panel := range map[string]color.NRGBA{"white": {255, 255, 255, 255}, "dark": {30, 30, 30, 255}} {
			if c := contrast(iconColours[kind], panel); c < 3 {
				t.Errorf("%s on a %s panel has a contrast of %.2f, want 3", kind, name, c)
			}
		}
	}
}

// TestIconOutlines compares the icons as outlines and as drawings in
// one colour, at the smallest size.
func TestIconOutlines(t *testing.T) {
	grey := func(kind iconKind) []int {
		img := drawIcon(kind, 16)
		values := make([]int, 16*16)
		for i := range values {
			c := img.NRGBAAt(i%16, i/16)
			// White marks count as nothing: that is how far they are from the body.
			if c.A > 0x80 && c.R < 0xf0 {
				values[i] = 1
			}
		}
		return values
	}
	for i, a := range iconKinds {
		for _, b := range iconKinds[i+1:] {
			different := 0
			va, vb := grey(a), grey(b)
			for k := range va {
				if va[k] != vb[k] {
					different++
				}
			}
			if different < 24 {
				t.Errorf("%s and %s differ in %d of 256 pixels", a, b, different)
			}
		}
	}
}

func TestIconHardEdges(t *testing.T) {
	for _, kind := range iconKinds {
		img := drawIcon(kind, 64)
		hardEdges(img)
		for i := 3; i < len(img.Pix); i += 4 {
			if a := img.Pix[i]; a != 0 && a != 0xff {
				t.Fatalf("%s has a pixel of alpha %d", kind, a)
			}
		}
	}
}

func TestIconOfWindows(t *testing.T) {
	sizes := []int{16, 32, 64}
	data := ico(iconReady, sizes...)
	le := binary.LittleEndian
	if le.Uint16(data[2:]) != 1 || int(le.Uint16(data[4:])) != len(sizes) {
		t.Fatalf("the header is % x", data[:6])
	}
	for i, size := range sizes {
		e := data[6+16*i:]
		length, offset := le.Uint32(e[8:]), le.Uint32(e[12:])
		img, err := png.Decode(bytes.NewReader(data[offset : offset+length]))
		must.Do(t, err)
		if int(e[0]) != size || img.Bounds() != image.Rect(0, 0, size, size) {
			t.Errorf("picture %d is %v and said to be %d wide, want %d", i, img.Bounds(), e[0], size)
		}
	}
}

// TestIconSheet writes all icons in all sizes on light and dark, to be looked at,
// to the folder that TUNCTL_ARTIFACTS names.
func TestIconSheet(t *testing.T) {
	dir := os.Getenv("TUNCTL_ARTIFACTS")
	if dir == "" {
		t.Skip("TUNCTL_ARTIFACTS names no folder for pictures")
	}
	sheet := image.NewNRGBA(image.Rect(0, 0, 400, 336))
	for y := range 336 {
		for x := range 400 {
			sheet.SetNRGBA(x, y, map[bool]color.NRGBA{true: {255, 255, 255, 255}, false: {30, 30, 30, 255}}[x < 200])
		}
	}
	for row, kind := range iconKinds {
		x := 8
		for _, size := range []int{16, 22, 24, 32, 48} {
			for _, left := range []int{0, 200} {
				paste(sheet, drawIcon(kind, size), x+left, 4+row*56)
			}
			x += size + 8
		}
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "icons.png"), pngOf(sheet), 0o644))
}

// paste draws img over sheet at x, y.
func paste(sheet, img *image.NRGBA, x, y int) {
	for dy := range img.Rect.Dy() {
		for dx := range img.Rect.Dx() {
			over, under := img.NRGBAAt(dx, dy), sheet.NRGBAAt(x+dx, y+dy)
			mix := func(o, u uint8) uint8 { return uint8((int(o)*int(over.A) + int(u)*(255-int(over.A))) / 255) }
			sheet.SetNRGBA(x+dx, y+dy, color.NRGBA{mix(over.R, under.R), mix(over.G, under.G), mix(over.B, under.B), 255})
		}
	}
}
