// Package nowindow keeps Windows from opening a console window for a program that a
// process without a console starts, as the agent and the tray are.
package nowindow
