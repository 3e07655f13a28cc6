package api

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// redacted passes text through a Redactor in stretches of the given lengths, the last
// over and over.
func redacted(r *Redactor, text []byte, lengths ...int) []byte {
	var out []byte
	for i := 0; len(text) > 0; i++ {
		n := min(lengths[min(i, len(lengths)-1)], len(text))
		out = append(out, r.Add(text[:n])...)
		text = text[n:]
	}
	return append(out, r.Flush()...)
}

func TestAStretchesBorderShowsNothingOfASecret(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef"
	text := []byte("http://nc10214:8888/lab?token=" + token + "&x=1\nits key is " + token + ".\r\n   password: hunter3\nThe password is set to hunter4\nPassword: \"hunter5&hunter6\"\npassword: <hunter7\npassword=hunter2 \xff\xfe token=")
	want := Redact(string(text), NewSecret(token))
	if strings.Contains(want, "0123") || strings.Contains(want, "hunter") {
		t.Fatalf("Redact itself shows a secret: %q", want)
	}
	for border := range text {
		if got := redacted(NewRedactor(NewSecret(token)), text, max(border, 1), len(text)); string(got) != want {
			t.Errorf("parted at %d: %q", border, got)
		}
	}
	for range 200 {
		var lengths []int
		for range 40 {
			lengths = append(lengths, 1+rand.IntN(12))
		}
		if got := redacted(NewRedactor(NewSecret(token)), text, lengths...); string(got) != want {
			t.Errorf("parted into %v: %q", lengths, got)
		}
	}
}

func TestAKnownSecretWithASpaceIsNotPartedEither(t *testing.T) {
	const token = "correct horse battery"
	text := []byte("it is correct horse battery, they say: correct horses")
	want := Redact(string(text), NewSecret(token))
	for border := 1; border < len(text); border++ {
		if got := redacted(NewRedactor(NewSecret(token)), text, border, len(text)); string(got) != want {
			t.Errorf("parted at %d: %q", border, got)
		}
	}
}

func TestAWordWithoutEndIsPassedOnWithoutItsSecrets(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 3*heldMax)
	secret := bytes.Repeat([]byte("s"), 2*heldMax)
	text := bytes.Join([][]byte{long, []byte("?access_token="), secret, []byte("&y="), long, []byte(" end\n")}, nil)
	for _, length := range []int{1000, 4096, 512 << 10, len(text)} {
		r := NewRedactor()
		var out []byte
		for rest := text; len(rest) > 0; {
			n := min(length, len(rest))
			out = append(out, r.Add(rest[:n])...)
			rest = rest[n:]
			if r.Held() > heldMax {
				t.Fatalf("%d bytes are held back", r.Held())
			}
		}
		out = append(out, r.Flush()...)
		want := string(long) + "?access_token=" + mask + "&y=" + string(long) + " end\n"
		if got := string(out); got != want {
			t.Errorf("in stretches of %d: %d bytes, want %d; it shows %d of the secret's", length, len(got), len(want), strings.Count(got, "s")-strings.Count(want, "s"))
		}
	}
}

func TestALogStretchThatIsNoTextTravelsAsItIs(t *testing.T) {
	for _, data := range [][]byte{nil, []byte("text ·"), {0xff, 0xfe, 'a'}, []byte("half a ·")[:8]} {
		var c LogChunk
		c.SetBytes(data)
		if !bytes.Equal(c.Bytes(), data) {
			t.Errorf("%q became %q", data, c.Bytes())
		}
	}
}
