package agent

import (
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

func TestCertificate(t *testing.T) {
	a := newAgent(t, "")
	heard := a.Hub.Subscribe("", api.AnswersNone)
	ends := time.Now().Add(30 * time.Minute)
	up := api.Host{Alias: "narval", State: api.HostUp}
	soon := up
	soon.CertificateEnds = ends
	far := up
	far.CertificateEnds = ends.Add(time.Hour)
	renewed := up
	renewed.CertificateEnds = ends.Add(-5 * time.Minute)
	for _, h := range []api.Host{up, far, soon, soon, renewed} {
		a.hostChanged(h)
	}
	var told []api.Notice
	for range 7 { // five changes and two notices
		if e := <-heard.C; e.Type == api.EventNotice {
			told = append(told, *e.Notice)
		}
	}
	if len(told) != 2 || told[0].Host != "narval" || told[0].Kind != api.NoticeNeedsLogin || !strings.Contains(told[0].Text, "certificate") {
		t.Errorf("told %+v", told)
	}
}
