package transfer

import "sync/atomic"

// Progress counts while a copy is under way. The totals grow until all folders are
// listed.
type Progress struct {
	copied, skipped, total atomic.Int64
	files, filesTotal      atomic.Int64
	listing                atomic.Int64 // folders yet to be listed
}

// Counts are what a Progress stands at.
type Counts struct {
	Copied  int64 // bytes that travelled
	Skipped int64 // bytes that were there already
	Total   int64 // bytes in all
	Files   int64 // files that are in place
	Of      int64 // files in all
	Listed  bool  // the totals are final
}

// Counts returns what it stands at.
func (p *Progress) Counts() Counts {
	return Counts{
		Copied: p.copied.Load(), Skipped: p.skipped.Load(), Total: p.total.Load(),
		Files: p.files.Load(), Of: p.filesTotal.Load(), Listed: p.listing.Load() == 0,
	}
}
