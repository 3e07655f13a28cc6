package agent_test

import (
	"slices"
	"testing"

	"tunctl/configs"
	"tunctl/jobwatch/detect"
)

func TestTheConfigTakesTheAppsThatAreRecognisedAndNoOthers(t *testing.T) {
	if known, recognised := configs.KnownApps(), detect.Apps(); !slices.Equal(known, recognised) {
		t.Errorf("the config takes    %q\nrecognised in logs: %q", known, recognised)
	}
}
