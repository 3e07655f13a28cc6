package jobwatch

import "strings"

// reason is why a job does not run, in words.
type reason struct {
	words string
	held  bool
	// never: waiting does not help; somebody has to do something.
	never bool
}

func (r reason) hint() string {
	if r.never && !r.held {
		return "the job will never start as submitted: " + strings.Replace(r.words, "the job asks", "it asks", 1)
	}
	return r.words
}
