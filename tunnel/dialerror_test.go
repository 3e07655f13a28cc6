package tunnel

import (
	"testing"

	"golang.org/x/crypto/ssh"
)

func TestDialError(t *testing.T) {
	for want, err := range map[string]*ssh.OpenChannelError{
		"the host could not connect to db:5432: Name or service not known":              {Reason: ssh.ConnectionFailed, Message: "Name or service not known"},
		"the host could not connect to db:5432: it gives no reason":                     {Reason: ssh.ConnectionFailed, Message: "Connection failed"},
		"the host does not allow forwarding to db:5432: it gives no reason":             {Reason: ssh.Prohibited, Message: "open failed"},
		"db:5432: the host refused (resource shortage): too many channels of one login": {Reason: ssh.ResourceShortage, Message: "too many channels of one login"},
	} {
		if got := dialError("db:5432", err); got.Error() != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
