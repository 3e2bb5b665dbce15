// Requests to the desk's own server; every failure is a line at the foot of the page.
const message = document.getElementById("message");

export function complain(text) {
  message.textContent = text;
}

async function answer(response) {
  if (!response.ok) {
    const text = await response.text();
    let said = text;
    try { said = JSON.parse(text).error; } catch { /* a plain line */ }
    throw new Error(said || `the desk answered ${response.status}`);
  }
  complain("");
  return response;
}

async function asking(make) {
  try {
    return await answer(await make());
  } catch (error) {
    complain(error instanceof TypeError ? "The desk does not answer; is beacon desk still running?" : error.message);
    throw error;
  }
}

export const getJson = async (path) => (await asking(() => fetch(path))).json();
export const getBytes = async (path) => (await asking(() => fetch(path))).arrayBuffer();
export const post = async (path, value) => (await asking(() => fetch(path, {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value),
}))).json();

// Names come from files of others: they are only ever text.
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") element.className = value;
    else if (key in element && key !== "role") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const short = (value) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(3))));
export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
