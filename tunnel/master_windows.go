package tunnel

// sharesConnections: the ssh program of Windows does not.
const sharesConnections = false
