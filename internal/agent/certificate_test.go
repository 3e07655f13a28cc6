package agent

import (
	"strings"
	"testing"
	"time"

	"tunctl/internal/api"
)

func TestACertificateThatEndsSoonIsToldOnce(t *testing.T) {
	a := &Agent{hub: newHub()}
	heard := a.hub.watch(api.AnswersNone)
	ends := time.Now().Add(30 * time.Minute)
	up := api.Host{Alias: "narval", State: api.HostUp}
	soon := up
	soon.CertificateEnds = ends
	renewed := up
	renewed.CertificateEnds = ends.Add(time.Hour)
	for _, h := range []api.Host{up, soon, soon, renewed} {
		a.hostChanged(h)
	}
	var told []api.Notice
	for range 6 { // four changes and two notices
		if e := <-heard.events; e.Type == api.EventNotice {
			told = append(told, *e.Notice)
		}
	}
	if len(told) != 2 || told[0].Host != "narval" || told[0].Kind != api.NoticeNeedsLogin || !strings.Contains(told[0].Text, "certificate") {
		t.Errorf("told %+v", told)
	}
}
