# formula.rb FORMULA SYSTEM CPU FOLDER - reads a formula as Homebrew would on a system
# (macos or linux) and a processor (arm or intel), installs from an unpacked archive,
# and prints what came of it as JSON. It knows as much of Homebrew as our formula uses.
require "json"

FORMULA, SYSTEM, CPU, FOLDER = ARGV

# Target is a folder that files are installed to.
class Target
  def initialize(name, found) = (@name, @found = name, found)

  def install(*files)
    files.flatten.flat_map { |f| f.is_a?(Hash) ? f.to_a : [[f, File.basename(f)]] }.each do |from, to|
      raise "#{from} is not in the archive" unless File.size?(from)
      @found << "#{@name}/#{to}"
    end
  end
end

class Formula
  class << self
    attr_reader :said

    %i[desc homepage version license url sha256].each do |word|
      define_method(word) { |value| (@said ||= {})[word] = value }
    end
    %w[macos linux].each { |s| define_method("on_#{s}") { |&b| b.call if s == SYSTEM } }
    %w[arm intel].each { |c| define_method("on_#{c}") { |&b| b.call if c == CPU } }
    def test(&block) = (@tested = block)
    def tested? = !@tested.nil?
  end

  def installed = (@installed ||= [])

  %i[bin man1 man5 bash_completion zsh_completion fish_completion].each do |name|
    define_method(name) { Target.new(name, installed) }
  end
end

load FORMULA
formula = Tunctl.new
Dir.chdir(FOLDER) { formula.install }
puts JSON.generate(Tunctl.said.merge(tested: Tunctl.tested?, installed: formula.installed))
