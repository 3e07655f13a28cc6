package doctor

import (
	"archive/zip"
	"fmt"
	"io"
	"strings"
	"time"
)

// Item is a file of a bundle.
type Item struct {
	Name string
	Text string
}

// maxItem bounds a file of a bundle; of a longer one the end is kept.
const maxItem = 512 << 10

// WriteBundle writes items as a zip file, each scrubbed, and returns them as they are
// in it.
func WriteBundle(w io.Writer, items []Item, s *Scrubber, now time.Time) ([]Item, error) {
	z := zip.NewWriter(w)
	packed := make([]Item, 0, len(items))
	for _, item := range items {
		if len(item.Text) > maxItem {
			_, end, _ := strings.Cut(item.Text[len(item.Text)-maxItem:], "\n") // half a line may hide half a secret
			item.Text = "…\n" + end
		}
		item.Text = s.Scrub(item.Text)
		f, err := z.CreateHeader(&zip.FileHeader{Name: item.Name, Method: zip.Deflate, Modified: now})
		if err == nil {
			_, err = io.WriteString(f, item.Text)
		}
		if err != nil {
			return packed, fmt.Errorf("pack %s: %w", item.Name, err)
		}
		packed = append(packed, item)
	}
	return packed, z.Close()
}
