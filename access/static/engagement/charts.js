// Shows the values at a point of a chart to a pointer, a finger, and the arrow keys. They come from
// the chart's table, so a chart without one has no values, and without this script the table remains.
(function () {
    "use strict";

    const PLOT = ".eds-chart[data-chart] > svg[tabindex]";
    let shown = null;

    function cells(row) {
        return Array.from(row.cells, (cell) => cell.textContent);
    }

    // The table as data, read once: a chart of a year has many rows.
    function read(plot) {
        if (!plot.edsChart) {
            const table = plot.parentElement.querySelector(".eds-chart-table table");
            plot.edsChart = {
                columns: Array.from(table.tHead.rows[0].cells).slice(1),
                rows: Array.from(table.tBodies[0].rows, cells),
                isBars: plot.parentElement.dataset.chart === "bars",
            };
        }
        return plot.edsChart;
    }

    // Where the label with this index is, from 0 to 1.
    function position(chart, index) {
        const count = chart.rows.length;
        return chart.isBars ? (index + 0.5) / count : count > 1 ? index / (count - 1) : 0.5;
    }

    function nearest(chart, part) {
        const count = chart.rows.length;
        const index = chart.isBars ? Math.floor(part * count) : Math.round(part * (count - 1));
        return Math.max(0, Math.min(count - 1, index));
    }

    function line(column, value) {
        const item = document.createElement("p");
        item.className = column.className;
        if (column.className) {
            const sample = document.createElement("i");
            sample.className = `eds-${column.dataset.stroke}`;
            item.append(sample, `${column.textContent} `);
            const number = document.createElement("b");
            number.textContent = value;
            item.append(number);
        } else {
            const isNote = column === column.parentElement.lastElementChild && !/^[\d–]/.test(value);
            item.append(isNote ? value : `${column.textContent} ${value}`);
        }
        return item;
    }

    function drawn(plot, name, attributes) {
        const element = document.createElementNS("http://www.w3.org/2000/svg", name);
        for (const [key, value] of Object.entries(attributes)) {
            element.setAttribute(key, value);
        }
        plot.append(element);
        return element;
    }

    function hide() {
        if (shown) {
            shown.parts.forEach((part) => part.remove());
            shown.tip.remove();
            shown = null;
        }
    }

    function show(plot, index) {
        if (shown && shown.plot === plot && shown.index === index) {
            return;
        }
        const chart = read(plot);
        const [label, ...values] = chart.rows[index];
        const x = `${100 * position(chart, index)}%`;
        // The region stays, so that screen readers say what changes in it.
        const tip = shown && shown.plot === plot ? shown.tip : document.createElement("div");
        if (shown && shown.plot === plot) {
            shown.parts.forEach((part) => part.remove());
        } else {
            hide();
            tip.className = "eds-chart-tip";
            tip.setAttribute("role", "status");
            plot.parentElement.append(tip);
        }
        const title = document.createElement("strong");
        title.textContent = label;
        tip.replaceChildren(title);
        const parts = [drawn(plot, "line", { class: "eds-chart-guide", x1: x, x2: x, y1: 0, y2: "100%" })];
        values.forEach((value, number) => {
            const column = chart.columns[number];
            if (value === "" || (chart.isBars && value === "0")) {
                return;
            }
            tip.append(line(column, value));
            const height = Number(value.replaceAll(",", "")) / Number(column.dataset.top);
            if (!chart.isBars && height >= 0) {
                const y = `${100 - 100 * Math.min(1, height)}%`;
                parts.push(drawn(plot, "circle", { class: column.className, cx: x, cy: y, r: 4 }));
            }
        });
        if (chart.isBars && tip.children.length === 1) {
            tip.append("None");
        }
        place(plot, tip, position(chart, index));
        shown = { plot, index, tip, parts };
    }

    // Beside the point, on the side that has room.
    function place(plot, tip, part) {
        const box = plot.getBoundingClientRect();
        const figure = plot.parentElement.getBoundingClientRect();
        const at = box.left - figure.left + part * box.width;
        const isLeft = part > 0.5;
        const left = isLeft ? at - tip.offsetWidth - 12 : at + 12;
        tip.style.left = `${Math.max(0, Math.min(left, figure.width - tip.offsetWidth))}px`;
        tip.style.top = `${box.top - figure.top + 8}px`;
    }

    function plotOf(event) {
        return event.target instanceof Element ? event.target.closest(PLOT) : null;
    }

    function follow(event) {
        const plot = plotOf(event);
        if (plot) {
            const box = plot.getBoundingClientRect();
            show(plot, nearest(read(plot), (event.clientX - box.left) / box.width));
        } else if (shown && (event.type === "pointerdown" || shown.plot !== document.activeElement)) {
            hide();
        }
    }

    document.addEventListener("pointermove", follow);
    document.addEventListener("pointerdown", follow);
    document.addEventListener("focusout", (event) => plotOf(event) && hide());
    document.addEventListener("keydown", (event) => {
        const plot = plotOf(event);
        if (!plot) {
            return;
        }
        const last = read(plot).rows.length - 1;
        const now = shown && shown.plot === plot ? shown.index : null;
        const next = {
            ArrowLeft: now === null ? last : Math.max(0, now - 1),
            ArrowRight: now === null ? 0 : Math.min(last, now + 1),
            Home: 0,
            End: last,
        }[event.key];
        if (next !== undefined) {
            event.preventDefault();
            show(plot, next);
        } else if (event.key === "Escape") {
            hide();
        }
    });
})();
