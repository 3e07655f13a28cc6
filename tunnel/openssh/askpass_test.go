package openssh

import (
	"testing"

	"tunctl/internal/api"
)

func TestARepeatedQuestionOfSSHMeansAWrongAnswer(t *testing.T) {
	password, code := question("alice@login's password:"), question("(alice@login) Verification code: ")
	second := question("(alice@login) Password: ")
	var q Questions
	for i, tt := range []struct {
		p    api.Prompt
		want string
	}{
		{password, ""},
		{password, "that was not right; 2 more tries before tunctl stops"},
		{password, "that was not right; 1 more try before tunctl stops"},
		{code, ""},
		{password, ""}, // not the same in a row: the code may have been wrong, or both
		{second, ""},
		{second, ""}, // it may want a code
		{code, ""},
		{code, "that was not right; 2 more tries before tunctl stops"},
	} {
		if got := q.retry(tt.p, 3); got != tt.want {
			t.Errorf("question %d, %q: %q, want %q", i, tt.p.Text, got, tt.want)
		}
	}
}
