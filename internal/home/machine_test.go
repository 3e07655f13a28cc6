package home

import "testing"

func TestMachineOfAMac(t *testing.T) {
	const registry = `+-o MacBookPro18,3  <class IOPlatformExpertDevice, id 0x100000227, registered, matched, active, busy 0 (50110 ms), retain 37>
    {
      "IOPolledInterface" = "AppleARMWatchdogTimerHibernateHandler is not serializable"
      "IOPlatformUUID" = "2B8C5A4F-1111-5C0A-9E53-0D8F7A1B2C3D"
      "IOPlatformSerialNumber" = "C02XX0XXXXXX"
    }
`
	if got, want := platformUUID(registry), "2B8C5A4F-1111-5C0A-9E53-0D8F7A1B2C3D"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := platformUUID("ioreg: error"); got != "" {
		t.Errorf("without one: %q", got)
	}
}

func TestMachine(t *testing.T) {
	if first, second := machine(), machine(); first != second || len(first) != 10 {
		t.Errorf("%q and then %q", first, second)
	}
}
