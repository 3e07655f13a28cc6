package lab

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestThePageWantsItsToken(t *testing.T) {
	p := &page{Node: "cn01", token: "s3cr3t"}
	for target, want := range map[string]int{
		"/lab": http.StatusForbidden, "/lab?token=other": http.StatusForbidden, "/lab?token=s3cr3t": http.StatusOK,
		"/api/status": http.StatusForbidden, "/api/status?token=s3cr3t": http.StatusOK, "/api": http.StatusOK,
		"/?token=s3cr3t": http.StatusFound, // to the page
	} {
		answer := httptest.NewRecorder()
		p.handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, target, nil))
		if answer.Code != want {
			t.Errorf("%s is answered with %d, want %d", target, answer.Code, want)
		}
	}
}
