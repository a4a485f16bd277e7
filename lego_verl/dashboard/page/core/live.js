// Follows a run by server-sent events; comes back by itself, and says when it is not connected.

const QUIET_MS = 25000; // a beat comes every 10 s
const AGAIN_MS = [500, 1000, 2000, 5000, 10000];

export class Live {
  #source = null;
  #run = null;
  #tries = 0;
  #timer = null;
  #watchdog = null;

  // onTold(message, changed): the run's state; onState("live" | "waiting" | "lost").
  constructor(onTold, onState) {
    this.onTold = onTold;
    this.onState = onState;
    // A page in the background holds no connection: a browser has six for all its pages of a server.
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#close() : this.#open()));
  }

  follow(run) {
    if (run === this.#run) return;
    this.#close();
    this.#run = run;
    this.#tries = 0;
    this.#open();
  }

  #open() {
    if (this.#run === null || this.#source || document.hidden) return;
    clearTimeout(this.#timer);
    const source = new EventSource(`api/runs/${encodeURIComponent(this.#run)}/stream`);
    this.#source = source;
    const heard = (changed) => (event) => {
      this.#tries = 0;
      this.#watch();
      this.onState("live");
      this.onTold(JSON.parse(event.data), changed);
    };
    source.addEventListener("change", heard(true));
    source.addEventListener("beat", heard(false));
    source.onerror = () => this.#lost();
    this.#watch();
  }

  #watch() {
    clearTimeout(this.#watchdog);
    this.#watchdog = setTimeout(() => this.#lost(), QUIET_MS);
  }

  #lost() {
    this.#close();
    this.onState(this.#tries ? "lost" : "waiting");
    const wait = AGAIN_MS[Math.min(this.#tries, AGAIN_MS.length - 1)];
    this.#tries += 1;
    this.#timer = setTimeout(() => this.#open(), wait);
  }

  #close() {
    clearTimeout(this.#timer);
    clearTimeout(this.#watchdog);
    this.#source?.close();
    this.#source = null;
  }
}
