package action

import (
	"errors"
	"testing"

	"tunctl/internal/api"
)

func TestWhoCopiesAnAddressIsToldWhatItIsWorth(t *testing.T) {
	for want, page := range map[string]api.OpenResponse{
		"Copied the address of nb, token included: whoever has it can use your notebook.":               {URL: "http://localhost:1/lab?token=x"},
		"Copied the address of nb. The page asks for a password, which `tunctl open nb --print` shows.": {URL: "http://localhost:1/", User: "ann", Password: "x"},
		"Copied the address of nb.": {URL: "http://localhost:1/"},
	} {
		if got := copiedText(Page{Session: "nb"}, page); got != want {
			t.Errorf("%+v: %q, want %q", page, got, want)
		}
	}
}

func TestTheCauseOfAFailureDoesNotRepeatIt(t *testing.T) {
	for text, want := range map[string]string{
		"could not extend job 1: the site does not allow it": "the site does not allow it",
		"the site does not allow it":                         "the site does not allow it",
		"narval: could not connect":                          "narval: could not connect",
	} {
		if got := Cause(errors.New(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
