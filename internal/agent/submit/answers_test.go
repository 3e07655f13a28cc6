package submit

import "testing"

func TestAHintAboutABuiltinJobNamesNoScript(t *testing.T) {
	for hint, want := range map[string]string{
		"set --account in args of the session or in the script; ask":                "set account; ask",
		"set it, for example --gres=gpu:1, in args of the session or in the script": "set it, for example --gres=gpu:1",
		"follow the message, in args of the session or in the script, or ask":       "follow the message, or ask",
	} {
		if got := withoutScript(hint); got != want {
			t.Errorf("%q: got %q, want %q", hint, got, want)
		}
	}
}

func TestDiskIsFull(t *testing.T) {
	for text, want := range map[string]bool{
		"OSError: [Errno 122] Disk quota exceeded: '/home/ann/.local/share/jupyter'": true,
		"cp: error writing 'x': No space left on device":                             true,
		"CUDA error: out of memory":                                                  false,
	} {
		if DiskIsFull(text) != want {
			t.Errorf("%q", text)
		}
	}
}
