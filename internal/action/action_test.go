package action

import (
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
