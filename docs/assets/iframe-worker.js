// Browsers start no worker from a page on the disk, so the search runs in a hidden frame there.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(source) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => {
        const message = new MessageEvent("message", { data });
        this.onmessage?.(message);
        this.dispatchEvent(message);
      };
      const script = this.inside.document.createElement("script");
      this.loaded = new Promise((resolve) => script.addEventListener("load", resolve));
      script.src = source;
      this.inside.document.documentElement.append(script);
    }
    postMessage(data) {
      this.loaded.then(() => this.inside.onmessage({ data }));
    }
    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
