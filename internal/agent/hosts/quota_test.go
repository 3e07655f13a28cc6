package hosts

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tunctl/configs"
	"tunctl/internal/api"
)

func TestAKnownQuotaAsksNothingOfAHost(t *testing.T) {
	h := hostsAt(t, "")
	known := api.QuotaResponse{Site: "narval", At: time.Now().Add(-59 * time.Minute), Reports: []api.CommandReport{{Command: "quota -s"}}}
	h.quotas.Store("narval", known)
	if got, err := h.Quota(t.Context(), api.QuotaRequest{Host: "narval"}); err != nil || !got.At.Equal(known.At) {
		t.Errorf("within the hour: %+v, %v", got, err)
	}
	if _, err := h.Quota(t.Context(), api.QuotaRequest{Host: "narval", Refresh: true}); err == nil {
		t.Error("a refresh was answered without a connection")
	}
	known.At = time.Now().Add(-61 * time.Minute)
	h.quotas.Store("narval", known)
	if _, err := h.Quota(t.Context(), api.QuotaRequest{Host: "narval"}); err == nil {
		t.Error("what is older than an hour was repeated")
	}
}

func TestQuotasAreAskedAgainWhenTheSiteHasChanged(t *testing.T) {
	h := hostsAt(t, "[host.narval]\nsite = \"mine\"\n")
	file := filepath.Join(configs.SitesFolder(h.opt.Settings.Config().Path), "mine.toml")
	site := func(reader string) {
		t.Helper()
		text := "title = \"Mine\"\nscheduler = \"slurm\"\nbalance = [\"quota -s\"]\n" + reader
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		if changed, err := h.opt.Settings.Reload(); err != nil || !changed {
			t.Fatal(changed, err)
		}
		h.Reload()
	}
	fromCache := func() bool {
		_, err := h.Quota(t.Context(), api.QuotaRequest{Host: "narval"})
		return err == nil // there is no connection to ask the host
	}
	site("")
	h.quotas.Store("narval", api.QuotaResponse{Site: "mine", At: time.Now()})
	if !fromCache() {
		t.Error("asked again within the hour")
	}
	site("[read.home]\ncommand = \"quota -s\"\npattern = '(?P<name>/home) (?P<used>\\d+) (?P<total>\\d+)'\nexample = \"/home 1 2\"\n")
	if fromCache() {
		t.Error("the answer for the old site was repeated")
	}
}
